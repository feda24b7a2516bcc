package main

import (
	"fmt"
	"os"
	"strings"
)

// What the plot shows: the admitted and the woken over time, of one run of a scenario.
const (
	plotScenario = "10ps"
	plotLateness = "uniform60"
	plotTitle    = "10,000 tasks under a limit of 10 per second, burst 10; wake-ups come up to 60 s late"
	plotStep     = 5_000 // milliseconds
)

// A curve is a running total, one number per step.
type curve []int

func curveOf(times []int64) curve {
	var c curve
	for _, t := range times {
		for int64(len(c)) <= t/plotStep {
			c = append(c, 0)
		}
		c[t/plotStep]++
	}
	for i := 1; i < len(c); i++ {
		c[i] += c[i-1]
	}
	return c
}

// until has the curve go on, or end, after so many steps.
func (c curve) until(steps int) curve {
	for len(c) < steps {
		c = append(c, c[len(c)-1])
	}
	return c[:steps]
}

// A panel is one diagram of a plot.
type panel struct {
	title, unit string
	curves      []curve // by strategy
}

// writePlot plays the plot's scenario with each strategy and draws what happened.
func writePlot(file string, set settings) error {
	admitted := panel{title: "Tasks admitted", unit: "tasks, in thousands"}
	woken := panel{title: "Wake-ups delivered", unit: "wake-ups, in thousands"}
	var names []string
	var steps int
	for _, c := range combinations() {
		if c.scenario.name != plotScenario || c.lateness.name != plotLateness {
			continue
		}
		w := newWorld(c, 1, set)
		w.traced = true
		w.run()
		names = append(names, c.strategy.name)
		admitted.curves = append(admitted.curves, curveOf(w.admitted))
		woken.curves = append(woken.curves, curveOf(w.woken))
		steps = max(steps, len(admitted.curves[len(names)-1]))
	}
	for i := range names {
		admitted.curves[i] = admitted.curves[i].until(steps)
		woken.curves[i] = woken.curves[i].until(steps)
	}
	svg := draw(names, admitted, woken)
	if err := os.WriteFile(file, []byte(svg), 0o644); err != nil { //nolint:gosec // a plot for everybody to read
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

// Sizes of the plot, in pixels.
const (
	panelWidth, panelHeight = 370, 250
	marginLeft, marginTop   = 66, 112
	panelGap                = 92
	plotWidth               = marginLeft + 2*panelWidth + panelGap + 24
	plotHeight              = marginTop + panelHeight + 52
)

// style is how the curve of a strategy is drawn. Those below are wider, so that curves that
// coincide can all be seen.
type style struct {
	says        string // in the legend
	light, dark string // colors
	width       float64
	dash        string
}

var styles = map[string]style{
	"place":       {"a place in line (Sluice)", "#1a7f37", "#3fb950", 2, ""},
	"retry_after": {"sleep for retry_after, try again", "#e08e45", "#b86a2b", 6, ""},
	"jitter":      {"the same with jitter", "#6639ba", "#b392f0", 2, "6 4"},
}

// drawn is the order in which curves are drawn, the lowest first.
var drawn = []string{"retry_after", "jitter", "place"}

// plotCSS has dark colors where the reader's are.
func plotCSS() string {
	var b strings.Builder
	b.WriteString("<style>@media (prefers-color-scheme: dark){.ground{fill:#0d1117}.text{fill:#e6edf3}.grid{stroke:#30363d}")
	for _, name := range drawn {
		fmt.Fprintf(&b, ".%s{stroke:%s}", name, styles[name].dark)
	}
	b.WriteString("}</style>\n")
	return b.String()
}

// draw returns the panels side by side as SVG.
func draw(names []string, panels ...panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<title>%s: tasks admitted and wake-ups delivered over time, by strategy</title>\n", plotTitle)
	b.WriteString(plotCSS())
	fmt.Fprintf(&b, `<rect class="ground" width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, plotHeight)
	label(&b, marginLeft, 26, "start", 15, plotTitle)
	const legend = 270 // from one entry to the next
	for i, name := range names {
		x := marginLeft + legend*i
		line(&b, name, fmt.Sprintf("%d,52 %d,52", x, x+34))
		label(&b, x+44, 56, "start", 12, styles[name].says)
	}
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", marginLeft+i*(panelWidth+panelGap), marginTop)
		p.draw(&b, names)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func label(b *strings.Builder, x, y int, anchor string, size int, text string) {
	fmt.Fprintf(b, `<text class="text" x="%d" y="%d" text-anchor="%s" font-size="%d" fill="#1f2328">%s</text>`+"\n", x, y, anchor, size, text)
}

func line(b *strings.Builder, name, points string) {
	s := styles[name]
	dash := ""
	if s.dash != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, s.dash)
	}
	fmt.Fprintf(b, `<polyline class="%s" fill="none" stroke="%s" stroke-width="%g"%s points="%s"/>`+"\n", name, s.light, s.width, dash, points)
}

// grid draws a line between two points of a panel.
func grid(b *strings.Builder, x1, y1, x2, y2 int) {
	fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%d" x2="%d" y2="%d" stroke="#d0d7de"/>`+"\n", x1, y1, x2, y2)
}

func (p panel) draw(b *strings.Builder, names []string) {
	steps, most := len(p.curves[0]), 0
	for _, c := range p.curves {
		most = max(most, c[len(c)-1])
	}
	label(b, 0, -14, "start", 13, p.title)
	fmt.Fprintf(b, `<text class="text" transform="translate(-46 %d) rotate(-90)" text-anchor="middle" fill="#1f2328">%s</text>`+"\n", panelHeight/2, p.unit)
	label(b, panelWidth/2, panelHeight+38, "middle", 12, "seconds since the crowd came")
	step := ticks(most)
	top := (most + step - 1) / step * step
	for n := 0; n <= top; n += step {
		y := panelHeight - n*panelHeight/top
		grid(b, 0, y, panelWidth, y)
		label(b, -8, y+4, "end", 12, fmt.Sprint(n/1000))
	}
	seconds := (steps - 1) * plotStep / 1000
	for t := 0; t <= seconds; t += ticks(seconds) {
		x := t * panelWidth / seconds
		grid(b, x, panelHeight, x, panelHeight+5)
		label(b, x, panelHeight+19, "middle", 12, fmt.Sprint(t))
	}
	for _, name := range drawn {
		for i := range names {
			if names[i] != name {
				continue
			}
			var points []string
			for t, n := range p.curves[i] {
				points = append(points, fmt.Sprintf("%.1f,%.1f",
					float64(t)*panelWidth/float64(steps-1), panelHeight-float64(n)*panelHeight/float64(top)))
			}
			line(b, name, strings.Join(points, " "))
		}
	}
}

// ticks returns a round number of which four to eight make up the most.
func ticks(most int) int {
	for n := 1; ; n *= 10 {
		for _, m := range []int{1, 2, 5} {
			if most <= 8*m*n {
				return m * n
			}
		}
	}
}
