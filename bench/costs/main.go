// Command costs prints what tasks cost on AWS, from measured request counts and list prices,
// beside what other ways to sleep durably cost, and the arithmetic behind every number. What
// it prints is part of docs/costs.md.
//
// The counts are those in figures.txt, which is what bench/ops has printed. To use fresh ones:
//
//	go run ./bench/ops | go run ./bench/costs -figures -
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

//go:embed figures.txt
var measured string

func main() {
	file := flag.String("figures", "", "read the figures of bench/ops from this `file`, - for standard input (default those of the repository)")
	flag.Parse()
	if err := run(*file, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench/costs:", err)
		os.Exit(1)
	}
}

func run(file string, out io.Writer) error {
	text := measured
	if file != "" {
		read := func() ([]byte, error) { return os.ReadFile(file) }
		if file == "-" {
			read = func() ([]byte, error) { return io.ReadAll(os.Stdin) }
		}
		data, err := read()
		if err != nil {
			return err
		}
		text = string(data)
	}
	counts, err := countsFrom(text)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, report(rows(counts)))
	return err
}

// report is the table, and below it what each number is made of.
func report(rows []row) string {
	var table, sums strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', 0)
	line := func(cells ...string) { fmt.Fprintln(w, "| "+strings.Join(cells, "\t| ")+"\t|") }
	header, rule := []string{"US dollars"}, []string{"---"}
	for _, s := range systems {
		header, rule = append(header, s), append(rule, "---:")
	}
	line(header...)
	line(rule...)
	for _, r := range rows {
		cells := []string{r.name}
		fmt.Fprintf(&sums, "\n%s%s:\n\n", strings.ToUpper(r.name[:1]), r.name[1:])
		for _, s := range systems {
			b, offered := r.bills[s]
			if !offered {
				cells = append(cells, "–")
				continue
			}
			cells = append(cells, fmt.Sprintf("%.2f", b.sum()))
			fmt.Fprintf(&sums, "- %s: %s\n", s, b)
		}
		line(cells...)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return table.String() + sums.String()
}
