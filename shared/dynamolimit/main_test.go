package dynamolimit_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !thorough && !given {
		_ = flag.Set("rapid.checks", "40")
	}
	goleak.VerifyTestMain(m)
}
