//go:build !race

package fabric

const withRace = false
