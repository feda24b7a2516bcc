package cli

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `Sluice is a serverless task queue: a task is an object in an S3 bucket, and its
handler runs in AWS Lambda.

Which queue: --bucket or SLUICE_BUCKET, or --stack or SLUICE_STACK for the bucket
of a deployed stack. Region, profile, credentials and endpoint are those of the AWS
command line (AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL, ...).

Results go to standard output, with --json as JSON for scripts; everything else goes
to standard error. Exit codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted.`

func (a *app) newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice COMMAND",
		Short: "Submit tasks to a Sluice queue, watch them, cancel and replay them",
		Long:  rootLong,
		Example: `  sluice submit -t send_mail -i '{"to": "ada@example.com"}' --delay 1h
  sluice watch
  sluice list --status failed --since 24h
  sluice history 0197f0c2-5d3a-7c61-9a51-7b1de2f0a9c4
  sluice replay --since 24h
  sluice doctor`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableFlagsInUseLine: true,
		Args:                  noSuchCommand,
		RunE:                  showHelp,
		PersistentPreRun:      func(*cobra.Command, []string) { a.started = true },
	}
	root.SetVersionTemplate("sluice {{.Version}}\n")
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(flagProblem)
	cobra.EnableCommandSorting = false // they are listed in the order of use
	root.Flags().SortFlags = false
	flags := root.PersistentFlags()
	flags.SortFlags = false
	a.target.addFlags(flags)
	flags.BoolVar(&a.json, "json", false, "print JSON: the records of tasks, one document or one per line")

	add := func(group, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: group, Title: title})
		for _, c := range commands {
			c.GroupID = group
			c.Flags().SortFlags = false
			c.DisableFlagsInUseLine = true
			root.AddCommand(c)
		}
	}
	add("submit", "Submit tasks:", a.newSubmitCommand(), a.newSubmitManyCommand())
	add("read", "Look at them:", a.newListCommand(), a.newGetCommand(), a.newHistoryCommand(), a.newWaitCommand(), a.newWatchCommand())
	add("change", "Change them:", a.newCancelCommand(), a.newReplayCommand(), a.newPurgeCommand())
	add("limits", "Rate limits:", a.newLimitsCommand())
	add("local", "Run it, and find out what is wrong:", a.newDevCommand(), a.newDoctorCommand(), a.newDeadLettersCommand(), a.newEmptyCommand())
	help := newHelpCommand()
	root.SetHelpCommand(help)
	add("other", "Other:", help)
	root.SetCompletionCommandGroupID("other")
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Short = "Complete commands and flags in your shell"
		completion.Example = "  source <(sluice completion bash)\n  sluice completion zsh > \"${fpath[1]}/_sluice\""
		completion.Args = noSuchCommand
		completion.RunE = showHelp
	}
	return root
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// newHelpCommand is that of cobra, but fails for a command that does not exist.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		Long:  "Explain a command, as `sluice COMMAND --help` does.",
		RunE: func(cmd *cobra.Command, args []string) error {
			named, _, err := cmd.Root().Find(args)
			if err != nil || named == cmd.Root() && len(args) > 0 {
				return noSuchCommand(cmd.Root(), args)
			}
			return named.Help()
		},
	}
}

// usageTemplate is the part of a help text below the description.
const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{range $group := .Groups}}

{{.Title}}{{range $.Commands}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}{{end}}{{if not .AllChildCommandsHaveGroup}}

Commands:{{range .Commands}}{{if and (eq .GroupID "") .IsAvailableCommand}}
  {{rpad .Name .NamePadding}}  {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" explains a command.{{end}}
`

// noSuchCommand refuses the arguments of a command that only has commands, and suggests what was meant.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("there is no command %q, did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usagef("there is no command %q", args[0])
}

// flagProblem words what pflag found wrong.
func flagProblem(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return usagef("--%s %q %v", value.GetFlag().Name, value.GetValue(), value.Unwrap())
	case errors.As(err, &unknown):
		if near := nearFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return usagef("%v, did you mean --%s?", err, near)
		}
	}
	return usagef("%v", err)
}

// nearFlag is a flag whose name holds the text as a word, or is held by it, empty if
// there is none.
func nearFlag(cmd *cobra.Command, name string) (near string) {
	const shortest = 3
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if near == "" && len(name) >= shortest && (strings.Contains(f.Name, name) || strings.Contains(name, f.Name)) {
			near = f.Name
		}
	})
	return near
}

// noArgs refuses arguments: most often JSON that the shell took apart.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("unexpected argument %q: put values with spaces or quotes between single quotes, such as -i '{\"a\": 1}'", args[0])
}

// wants refuses any other number of arguments than one, or with several any number but none.
func wants(what string, several bool) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("%s is missing", what)
		case len(args) > 1 && !several:
			return usagef("%s is wanted alone, then came %q", what, args[1])
		}
		return nil
	}
}

// version names the build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown build)"
	}
	number := info.Main.Version
	if number == "" || number == "(devel)" {
		number = "devel"
	}
	details := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		const enough = 12
		if s.Key == "vcs.revision" && len(s.Value) >= enough {
			details = append([]string{"commit " + s.Value[:enough]}, details...)
		}
	}
	return fmt.Sprintf("%s (%s)", number, strings.Join(details, ", "))
}
