// Command sluice is the command line of Sluice: it submits tasks, watches them,
// and cancels or replays them. `sluice --help` is its reference.
package main

import (
	"os"

	"github.com/sluice-dev/sluice/cmd/sluice/internal/cli"
)

func main() { os.Exit(cli.Main()) }
