package cli

import "github.com/spf13/cobra"

// newDevCommand returns the command that runs a local cloud, nil in a build without one.
func newDevCommand() *cobra.Command { return nil }
