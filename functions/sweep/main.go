// Command sweep is the sweep function: run by a cron every few minutes, it has
// the claim function look at tasks that lost their event or wake-up.
package main

import "github.com/sluice-dev/sluice/shared/sweep"

func main() { sweep.Start() }
