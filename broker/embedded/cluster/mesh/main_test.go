package mesh_test

import (
	"testing"

	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }
