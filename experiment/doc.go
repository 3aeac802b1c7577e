// Package experiment implements experiments with a lab: a lab is run with varying settings
// and several seeds, measured, compared with a paper, drawn, and checked against
// expectations. The package determines the cells of an experiment file, stores their
// tables, summarizes them with confidence intervals, and checks them. It does not run the
// cells itself: see Runner.
package experiment
