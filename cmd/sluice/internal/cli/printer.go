package cli

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// printer writes to one of the output streams and knows what can be shown there. The
// first error that a write meets stays, flush returns it.
type printer struct {
	*bufio.Writer

	file *os.File
	// terminal tells that a person reads along.
	terminal bool
	color    bool
	// width in columns, 0 for as many as it takes.
	width int
	// progress tells that a line of progress stands at the cursor.
	progress bool
}

func newPrinter(file *os.File) *printer {
	p := &printer{Writer: bufio.NewWriter(file), file: file}
	fd := int(file.Fd())
	if !term.IsTerminal(fd) {
		return p
	}
	p.terminal = os.Getenv("TERM") != "dumb"
	p.color = p.terminal && os.Getenv("NO_COLOR") == ""
	p.width, _ = p.size()
	return p
}

// size is that of the terminal now, 0 if it is not known.
func (p *printer) size() (width, height int) {
	if p.file == nil {
		return 0, 0
	}
	width, height, err := term.GetSize(int(p.file.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// printf keeps errors for flush.
func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *printer) flush() error { return p.Flush() }

// Styles, empty where colors are not shown.
func (p *printer) dim(s string) string  { return p.style("2", s) }
func (p *printer) bold(s string) string { return p.style("1", s) }

func (p *printer) style(code, s string) string {
	if !p.color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// showProgress replaces the line of progress. It is for people only.
func (p *printer) showProgress(format string, args ...any) {
	if p.terminal {
		p.printf("\r\x1b[K%s", p.dim(inline(fmt.Sprintf(format, args...))))
		p.progress = true
		_ = p.flush()
	}
}

func (p *printer) clearProgress() {
	if p.progress {
		p.printf("\r\x1b[K")
		p.progress = false
		_ = p.flush()
	}
}

// inline makes text from outside fit for one line of a terminal: what is not
// printed but obeyed (escape sequences, line breaks, marks that turn the direction of
// writing) is shown as an escape instead.
func inline(s string) string {
	if strings.IndexFunc(s, obeyed) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && s[i] != "\uFFFD"[0]:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case obeyed(r):
			b.WriteString(unicodeEscape(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// block is inline for text of several lines.
func block(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\r\n"), "\n")
	for i, line := range lines {
		lines[i] = inline(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// escapedJSON spells the same JSON so that a terminal prints all of it. Only strings can hold
// what has to be escaped.
func escapedJSON(doc []byte) []byte {
	var b strings.Builder
	for _, r := range string(doc) {
		if obeyed(r) && r != '\n' {
			b.WriteString(unicodeEscape(r))
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

func unicodeEscape(r rune) string { return fmt.Sprintf(`\u%04x`, r) }

// obeyed reports whether a terminal acts on the character instead of showing it.
func obeyed(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	case r == '\u200e', r == '\u200f', r == '\u061c', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return true
	}
	return false
}

// cut shortens text to a number of characters.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(width-1, 0)]) + "…"
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
}

// table writes rows with aligned columns as they come, batch by batch. Columns grow
// when a later batch needs it. On a terminal the last column is cut to the
// line.
type table struct {
	out    *printer
	widths []int
	rows   [][]string
	// paint styles a padded cell.
	paint func(row []string, column int, padded string) string
}

const columnGap = 2

func newTable(out *printer, header ...string) *table {
	return &table{out: out, widths: make([]int, len(header)), rows: [][]string{header}}
}

func (t *table) add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = inline(c)
	}
	t.rows = append(t.rows, row)
}

func (t *table) flush() {
	for _, row := range t.rows {
		for i, c := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range t.rows {
		t.write(row)
	}
	t.rows = t.rows[:0]
}

func (t *table) write(row []string) {
	var line strings.Builder
	used := 0
	for i, c := range row {
		last := i == len(row)-1
		switch {
		case last && t.out.terminal && t.out.width > 0:
			const least = 12
			c = cut(c, max(t.out.width-used, least))
		case !last:
			c = pad(c, t.widths[i])
		}
		used += utf8.RuneCountInString(c) + columnGap
		if t.paint != nil {
			c = t.paint(row, i, c)
		}
		line.WriteString(c)
		if !last {
			line.WriteString(strings.Repeat(" ", columnGap))
		}
	}
	t.out.printf("%s\n", strings.TrimRight(line.String(), " "))
}
