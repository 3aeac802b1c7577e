"""Runs rdma-core's tests, unpacked in the directory "tests", and prints a line of JSON for each."""
import json
import sys
import unittest
from importlib.machinery import SourceFileLoader

sys.path.insert(0, "tests")
from args_parser import parser  # of rdma-core

tests = SourceFileLoader("tests", "tests/__init__.py").load_module()
parser.parse_args()


class Result(unittest.TextTestResult):
    def __init__(self, *args):
        super().__init__(*args)
        self.rows = []

    def row(self, test, outcome, text=""):
        self.rows.append({"test": test.id(), "outcome": outcome, "text": text})

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


suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
for row in result.rows:
    print("RESULT " + json.dumps(row), flush=True)
