// Package experiment is what researchers do with a lab: they run it with some settings
// that vary and with several seeds, measure, compare with a paper, draw and say what must
// hold. It works out the cells of an experiment file, keeps what they leave behind, sums it
// up with confidence intervals, and judges it. Who runs the cells is not its business: see
// Runner.
package experiment
