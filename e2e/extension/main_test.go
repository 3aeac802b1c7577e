package extension

import (
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m) }
