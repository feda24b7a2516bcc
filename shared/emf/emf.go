// Package emf makes a log line carry metrics: CloudWatch reads the embedded
// metric format from a function's log, so a metric costs no request. The format is that of
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
//
// Every set of values of the dimensions is a metric that is billed: dimensions are task
// types, policies and functions, never ids or keys.
package emf

import (
	"log/slog"
	"time"
)

// Namespace of all metrics of Sluice.
const Namespace = "Sluice"

// Unit of a metric.
type Unit string

// The units that Sluice uses.
const (
	Count   Unit = "Count"
	Seconds Unit = "Seconds"
)

// Metric is one value.
type Metric struct {
	Name  string
	Unit  Unit
	Value float64
}

// Dimension is what a metric is told apart by.
type Dimension struct{ Name, Value string }

// One is the metric of one occurrence.
func One(name string) Metric { return Metric{Name: name, Unit: Count, Value: 1} }

// InSeconds is the metric of a duration.
func InSeconds(name string, d time.Duration) Metric {
	return Metric{Name: name, Unit: Seconds, Value: d.Seconds()}
}

// directive tells CloudWatch which members of the line are metrics.
type directive struct {
	Timestamp         int64    `json:"Timestamp"` // ms
	CloudWatchMetrics []member `json:"CloudWatchMetrics"`
}

type member struct {
	Namespace  string       `json:"Namespace"`
	Dimensions [][]string   `json:"Dimensions"`
	Metrics    []definition `json:"Metrics"`
}

type definition struct {
	Name string `json:"Name"`
	Unit Unit   `json:"Unit"`
}

// Attrs are the members that make a line of a JSON log carry the metrics, at
// the time, under the dimension. They are at the top level of the line: the logger may not be
// in a group.
func Attrs(at time.Time, by Dimension, metrics ...Metric) []slog.Attr {
	defined := make([]definition, 0, len(metrics))
	attrs := make([]slog.Attr, 0, len(metrics)+2)
	attrs = append(attrs, slog.String(by.Name, by.Value))
	for _, m := range metrics {
		defined = append(defined, definition{Name: m.Name, Unit: m.Unit})
		attrs = append(attrs, slog.Float64(m.Name, m.Value))
	}
	return append(attrs, slog.Any("_aws", directive{
		Timestamp:         at.UnixMilli(),
		CloudWatchMetrics: []member{{Namespace: Namespace, Dimensions: [][]string{{by.Name}}, Metrics: defined}},
	}))
}
