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

// A panel is one diagram of a plot.
type panel struct {
	title  string
	curves []curve
	most   int // of the vertical axis
}

// writePlot plays the plot's scenario with each strategy and draws what happened.
func writePlot(file string, set settings) error {
	admitted := panel{title: "tasks admitted"}
	woken := panel{title: "wake-ups delivered"}
	var names []string
	var span int
	for _, c := range combinations() {
		if c.scenario.name != plotScenario || c.lateness.name != plotLateness || c.strategy.patience.Linger > 0 {
			continue
		}
		w := newWorld(c, 1, set)
		w.traced = true
		w.run()
		names = append(names, c.strategy.name)
		admitted.curves = append(admitted.curves, curveOf(w.admitted))
		woken.curves = append(woken.curves, curveOf(w.woken))
		admitted.most = max(admitted.most, len(w.tasks))
		woken.most = max(woken.most, len(w.woken))
		span = max(span, len(admitted.curves[len(admitted.curves)-1]))
	}
	svg := draw(names, span, admitted, woken)
	if err := os.WriteFile(file, []byte(svg), 0o644); err != nil { //nolint:gosec // a plot for everybody to read
		return fmt.Errorf("writing the plot: %w", err)
	}
	return nil
}

// Sizes of the plot, in pixels.
const (
	panelWidth, panelHeight = 380, 260
	marginLeft, marginTop   = 70, 60
	panelGap                = 90
	plotWidth               = 2*panelWidth + marginLeft + panelGap + 20
	plotHeight              = panelHeight + marginTop + 60
)

var colors = []string{"#0a7d4b", "#c2410c", "#4f46e5"}

// draw returns the panels side by side as SVG.
func draw(names []string, span int, panels ...panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"20\" font-size=\"14\">10,000 tasks under a limit of 10 per second, wake-ups up to 60 s late</text>\n", marginLeft)
	for i, name := range names {
		x := marginLeft + 150*i
		fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"36\" x2=\"%d\" y2=\"36\" stroke=\"%s\" stroke-width=\"2\"/><text x=\"%d\" y=\"40\">%s</text>\n",
			x, x+24, colors[i], x+30, name)
	}
	for i, p := range panels {
		fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\">\n", marginLeft+i*(panelWidth+panelGap), marginTop)
		p.draw(&b, span)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p panel) draw(b *strings.Builder, span int) {
	fmt.Fprintf(b, "<text x=\"0\" y=\"-6\" fill=\"#444\">%s</text>\n", p.title)
	for i := range 5 {
		y := panelHeight - i*panelHeight/4
		fmt.Fprintf(b, "<line x1=\"0\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"-6\" y=\"%d\" text-anchor=\"end\">%d</text>\n",
			y, panelWidth, y, y+4, p.most*i/4)
		x := i * panelWidth / 4
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d s</text>\n", x, panelHeight+18, span*i/4*plotStep/1000)
	}
	for i, c := range p.curves {
		var points []string
		for t, n := range c {
			if t > span {
				break
			}
			points = append(points, fmt.Sprintf("%.1f,%.1f",
				float64(t)*panelWidth/float64(span), panelHeight-float64(n)*panelHeight/float64(p.most)))
		}
		fmt.Fprintf(b, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"%s\"/>\n", colors[i], strings.Join(points, " "))
	}
}
