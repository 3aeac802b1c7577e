// Package testlab starts labs for end-to-end tests and waits for what happens in them. Tests in
// the packages beside it run the weft command as users do: real labs and real programs in
// wall-clock time, or runs in virtual time.
//
// Tests with labs need root and the programs that scripts/test.sh installs; they are skipped
// without. They run beside each other (t.Parallel), a few at a time in all packages together
// (Need), so they share nothing: a lab has its own name, directories and networks. They check
// nothing that the load of the machine changes; where time matters, the lab is dilated or runs
// in virtual time. None waits by sleeping: WaitFor and the functions beside it wait for
// conditions.
package testlab
