// Package guide tests the tutorial and the cookbook: their commands work as printed, and what they
// show of virtual time is what comes out.
package guide

import (
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }
