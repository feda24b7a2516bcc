package limit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/limit"
)

type prompt struct {
	org    string
	model  string
	tokens int64
	batch  bool
}

func (p prompt) Org() string      { return p.org }
func (p prompt) Model() string    { return p.model }
func (p prompt) MaxTokens() int64 { return p.tokens }
func (p prompt) IsBatch() bool    { return p.batch }

var (
	requests = limit.Policy{Name: "vendor", Group: "llm", Rate: limit.PerSecond(10), Burst: 20}
	tokens   = limit.Policy{Name: "tpm", Group: "llm", Rate: limit.Per(1_000_000, time.Minute)}
	daily    = limit.Policy{Name: "daily", Window: limit.Days("Europe/Paris"), Max: 1000}
	opus     = limit.Policy{Name: "opus", Window: limit.FromFirstUse(5 * time.Hour), Max: 50}
)

func show(tiers []limit.Tier) string {
	var s []string
	for _, t := range tiers {
		s = append(s, fmt.Sprintf("%v×%d", t, t.Units))
	}
	return strings.Join(s, " ")
}

func TestSelectorChoosesTiers(t *testing.T) {
	t.Parallel()
	selector := limit.All(
		limit.By(requests, prompt.Org),
		limit.By(tokens, prompt.Org).Cost(prompt.MaxTokens),
		limit.When(prompt.IsBatch, limit.Global[prompt](daily)),
		limit.Switch(prompt.Model, map[string]limit.Selector[prompt]{
			"opus":  limit.By(opus, prompt.Org),
			"haiku": limit.None[prompt](),
		}, limit.By(opus, prompt.Org).Cost(func(prompt) int64 { return 2 })),
		limit.None[prompt](),
		limit.Selector[prompt]{},
	)
	for _, c := range []struct {
		payload prompt
		want    string
	}{
		{prompt{"acme", "haiku", 500, false}, `vendor["acme"]×1 tpm["acme"]×500`},
		{prompt{"acme", "haiku", 500, true}, `vendor["acme"]×1 tpm["acme"]×500 daily[""]×1`},
		{prompt{"", "opus", 0, false}, `vendor[""]×1 tpm[""]×0 opus[""]×1`},
		{prompt{"b", "new", 1, false}, `vendor["b"]×1 tpm["b"]×1 opus["b"]×2`},
	} {
		if got := show(selector.Tiers(c.payload)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.payload, got, c.want)
		}
	}
	set, err := selector.Policies()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range set.Policies() {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "vendor tpm daily opus" {
		t.Errorf("policies %s, want each that can be reached, once", got)
	}
}

func TestCostOfACombinationIsThatOfEveryTier(t *testing.T) {
	t.Parallel()
	s := limit.All(limit.By(requests, prompt.Org), limit.Global[prompt](daily)).Cost(prompt.MaxTokens)
	if got := show(s.Tiers(prompt{org: "a", tokens: 7})); got != `vendor["a"]×7 daily[""]×7` {
		t.Error(got)
	}
	calls := 0
	s = limit.When(prompt.IsBatch, limit.Global[prompt](daily)).Cost(func(prompt) int64 { calls++; return 1 })
	if s.Tiers(prompt{}); calls != 0 {
		t.Error("the cost of a payload without tiers is asked for")
	}
}

func TestTwoDefinitionsOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	other := requests
	other.Burst = 30
	_, err := limit.All(limit.By(requests, prompt.Org), limit.When(prompt.IsBatch, limit.By(other, prompt.Org))).Policies()
	var bad *limit.InvalidPolicyError
	if !errors.As(err, &bad) || bad.Policy != "vendor" {
		t.Errorf("error %v, want one about vendor", err)
	}
	// Two that only spell out the defaults differently are the same.
	same := limit.Policy{Name: "p", Rate: limit.PerSecond(10)}
	spelled := limit.Policy{Name: "p", Group: "p", Rate: limit.PerSecond(10), Max: 10, OverMax: limit.Reject}
	if set, err := limit.NewSet(same, spelled, same); err != nil || len(set.Policies()) != 1 {
		t.Errorf("%v, %v, want one policy", set.Policies(), err)
	}
}

func TestSetNamesEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := limit.NewSet(requests, limit.Policy{Name: "A"}, limit.Policy{Name: "b", Rate: limit.PerSecond(-1)})
	for _, part := range []string{`policy "A": name: `, "; kind: ", `policy "b": refill: -1`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want it to say %s", err, part)
		}
	}
}

func TestSetFindsTiersByName(t *testing.T) {
	t.Parallel()
	set, err := limit.NewSet(requests, tokens)
	if err != nil {
		t.Fatal(err)
	}
	if tier, err := set.Tier("tpm", "acme", 5); err != nil || tier != tokens.Key("acme").Cost(5) {
		t.Errorf("%v, %v", tier, err)
	}
	if _, err := set.Tier("tpn", "acme", 5); !errors.Is(err, limit.ErrUnknownPolicy) {
		t.Errorf("error %v, want ErrUnknownPolicy", err)
	}
}

func TestRequestBounds(t *testing.T) {
	t.Parallel()
	var one, many []limit.Tier
	for i := range limit.MaxTiersPerItem {
		p := limit.Policy{Name: fmt.Sprintf("p%d", i), Group: "g", Rate: limit.PerSecond(1)}
		one = append(one, p.Key("k"))
	}
	for i := range limit.MaxItems {
		many = append(many, requests.Key(fmt.Sprint(i)), tokens.Key(fmt.Sprint(i)))
	}
	extra := limit.Policy{Name: "extra", Group: "g", Rate: limit.PerSecond(1)}
	for _, c := range []struct {
		name  string
		tiers []limit.Tier
		about string // "" if allowed
	}{
		{"none", nil, ""},
		{"sixteen on one item", one, ""},
		{"the same again", append(one[:16:16], one...), ""},
		{"seventeen", append(one[:16:16], extra.Key("k")), "at most 16"},
		{"ten items", many, ""},
		{"eleven", append(many[:20:20], requests.Key("x")), "11 different"},
		{"a sum out of range", []limit.Tier{tokens.Key("a").Cost(limit.MaxUnits), tokens.Key("a")}, "summed cost"},
		{"a cost out of range", []limit.Tier{tokens.Key("a").Cost(limit.MaxUnits + 1)}, "cost"},
		{"a negative cost", []limit.Tier{tokens.Key("a").Cost(-1)}, "cost"},
		{"a long key", []limit.Tier{tokens.Key(strings.Repeat("k", 1025))}, "1025 bytes"},
		{"not UTF-8", []limit.Tier{tokens.Key("\xc3")}, "not UTF-8"},
	} {
		_, err := limit.Merge(c.tiers)
		var invalid *limit.InvalidRequestError
		switch {
		case c.about == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.about != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), c.about)):
			t.Errorf("%s: error %v, want one about %q", c.name, err, c.about)
		}
	}
}
