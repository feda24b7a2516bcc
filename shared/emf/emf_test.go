package emf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/shared/emf"
)

func TestALineCarriesItsMetricsAsCloudWatchReadsThem(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	attrs := emf.Attrs(time.UnixMilli(1_700_000_000_123), emf.Dimension{Name: "TaskType", Value: "send_mail"},
		emf.One("TasksCompleted"), emf.InSeconds("HandlerTime", 1500*time.Millisecond))
	slog.New(slog.NewJSONHandler(&out, nil)).LogAttrs(context.Background(), slog.LevelInfo, "task", attrs...)

	var line struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		TaskType       string
		TasksCompleted float64
		HandlerTime    float64
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.AWS.Timestamp != 1_700_000_000_123 || line.TaskType != "send_mail" || line.TasksCompleted != 1 || line.HandlerTime != 1.5 {
		t.Errorf("line = %s", out.String())
	}
	if m := line.AWS.CloudWatchMetrics; len(m) != 1 || m[0].Namespace != "Sluice" || m[0].Dimensions[0][0] != "TaskType" ||
		len(m[0].Metrics) != 2 || m[0].Metrics[1].Unit != "Seconds" {
		t.Errorf("line = %s", out.String())
	}
}
