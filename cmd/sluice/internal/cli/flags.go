package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/shared/task"
)

// The values of flags, each refusing what it does not take in words that follow the
// flag's name.

// durationFlag is a duration, nil until it is given.
type durationFlag struct {
	value *time.Duration
	// positive refuses 0 too.
	positive bool
}

func (f *durationFlag) Set(s string) error {
	d, err := parseDuration(s)
	switch {
	case err != nil:
		return err
	case d < 0:
		return errors.New("is negative")
	case d == 0 && f.positive:
		return errors.New("must be longer than 0")
	}
	f.value = &d
	return nil
}

func (f *durationFlag) String() string { return "" }
func (f *durationFlag) Type() string   { return "duration" }

// timeFlag is a time, nil until it is given.
type timeFlag struct{ value *time.Time }

func (f *timeFlag) Set(s string) error {
	at, err := parseTime(s)
	if err != nil {
		return err
	}
	f.value = &at
	return nil
}

func (f *timeFlag) String() string { return "" }
func (f *timeFlag) Type() string   { return "time" }

// countFlag is a whole number from 0, nil until it is given.
type countFlag struct {
	value *int
	// positive refuses 0 too.
	positive bool
}

func (f *countFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	least := int64(0)
	if f.positive {
		least = 1
	}
	if err != nil || n < least || n > task.MaxCount {
		return fmt.Errorf("must be a whole number from %d to %d", least, int64(task.MaxCount))
	}
	count := int(n)
	f.value = &count
	return nil
}

func (f *countFlag) String() string { return "" }
func (f *countFlag) Type() string   { return "n" }

// textFlag is a text that may not be empty: an empty one is most often a shell variable
// that is not set.
type textFlag struct{ value string }

func (f *textFlag) Set(s string) error {
	if s == "" {
		return errors.New("is empty: leave the flag out, or is a variable not set?")
	}
	f.value = s
	return nil
}

func (f *textFlag) String() string { return f.value }
func (f *textFlag) Type() string   { return "text" }

// pairsFlag collects NAME=VALUE, parted at the first =.
type pairsFlag struct {
	values map[string]string
	// check looks at a name, may be nil.
	check func(name string) error
}

func (f *pairsFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("must be written NAME=VALUE")
	}
	if !utf8.ValidString(s) {
		return errors.New("is not valid UTF-8")
	}
	if _, twice := f.values[name]; twice {
		return fmt.Errorf("gives %s a second time", name)
	}
	if f.check != nil {
		if err := f.check(name); err != nil {
			return err
		}
	}
	if f.values == nil {
		f.values = make(map[string]string)
	}
	f.values[name] = value
	return nil
}

func (f *pairsFlag) String() string { return "" }
func (f *pairsFlag) Type() string   { return "name=value" }

// limitsFlag collects the tiers that a task names: --limit starts one, --limit-key and
// --limit-cost say more about it. Keys are anybody's text, so nothing is split.
type limitsFlag struct{ tiers []task.Limit }

// limitPart is one of the three flags.
type limitPart struct {
	limits *limitsFlag
	kind   string
	set    func(f *limitsFlag, value string) error
}

func (p *limitPart) Set(s string) error { return p.set(p.limits, s) }
func (p *limitPart) String() string     { return "" }
func (p *limitPart) Type() string       { return p.kind }

func (f *limitsFlag) policy() *limitPart {
	return &limitPart{f, "policy", func(f *limitsFlag, value string) error {
		if value == "" {
			return errors.New("names no policy")
		}
		f.tiers = append(f.tiers, task.Limit{Policy: value, Cost: 1})
		return nil
	}}
}

func (f *limitsFlag) key() *limitPart {
	return &limitPart{f, "key", func(f *limitsFlag, value string) error {
		tier, err := f.last()
		if err == nil {
			tier.Key = value
		}
		return err
	}}
}

func (f *limitsFlag) cost() *limitPart {
	return &limitPart{f, "n", func(f *limitsFlag, value string) error {
		tier, err := f.last()
		if err != nil {
			return err
		}
		var n countFlag
		if err := n.Set(value); err != nil {
			return err
		}
		tier.Cost = int64(*n.value)
		return nil
	}}
}

func (f *limitsFlag) last() (*task.Limit, error) {
	if len(f.tiers) == 0 {
		return nil, errors.New("belongs to the --limit before it, and there is none")
	}
	return &f.tiers[len(f.tiers)-1], nil
}
