"""run.py I N: runs the I-th of N parts of rdma-core's tests, unpacked in the directory "tests".

It prints a line of JSON for each test. A class of tests is in one part.
"""
import json
import sys
import unittest
from importlib.machinery import SourceFileLoader

sys.path.insert(0, "tests")
from args_parser import parser  # of rdma-core

tests = SourceFileLoader("tests", "tests/__init__.py").load_module()
part, parts = int(sys.argv.pop(1)), int(sys.argv.pop(1))
parser.parse_args()


class Result(unittest.TextTestResult):
    def row(self, test, outcome, text=""):
        print("\nRESULT " + json.dumps({"test": test.id(), "outcome": outcome, "text": text}), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.row(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.row(test, "skipped", reason)

    def addError(self, test, err):
        super().addError(test, err)
        self.row(test, "failed", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.row(test, "failed", self._exc_info_to_string(err, test))


def classes(suite):
    """The suites in a suite that have tests themselves: one for each class."""
    if any(isinstance(t, unittest.TestCase) for t in suite):
        return [suite]
    return [c for s in suite for c in classes(s)]


mine = classes(unittest.defaultTestLoader.loadTestsFromModule(tests))[part::parts]
suite = unittest.TestSuite(mine)
unittest.TextTestRunner(sys.stdout, verbosity=0, resultclass=Result).run(suite)
