// Command reset is the reset function: run by a cron every minute, it resets
// manual policies at the times of their cron and counts what is registered.
package main

import "github.com/sluice-dev/sluice/shared/reset"

func main() { reset.Start() }
