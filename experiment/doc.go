// Package experiment implements experiments with a lab: a lab is run with varying settings
// and several seeds, measured, compared with a paper, drawn, and checked against
// expectations. The package determines the cells of an experiment file, stores their
// tables, summarizes them with confidence intervals, and checks them. It does not run the
// cells itself: see Runner.
//
// A Runner runs jobs and tells a Watcher: package pool by processes (weft run-cell: job
// in, tables out, progress on descriptor 3), package remote by package cluster. A runner
// knows neither measures nor pictures. Experiment.Run takes what is stored, runs the rest,
// and measures the tables. The key of a job is a hash of its lab as one text, its seed,
// what is recorded, and the version of weft; the Store has a zip archive of CSV for each
// key. So results depend on keys only, and results of virtual time contain no times of the
// machine.
package experiment
