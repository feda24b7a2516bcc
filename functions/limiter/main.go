// Command limiter is the limiter function: it answers one JSON request per
// invocation, for handlers in any language.
package main

import "github.com/sluice-dev/sluice/shared/lambdalimit"

func main() { lambdalimit.Start() }
