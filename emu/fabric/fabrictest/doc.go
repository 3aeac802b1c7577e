// Package fabrictest has what tests of fabrics share: labs, also random ones, flows between
// their hosts, and what must hold for the flows' records. It does not import package fabric,
// whose own tests use it, too.
package fabrictest
