package cli

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/cmd/sluice/internal/doctor"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
)

const doctorLong = `Examine a queue: credentials, region, the bucket and its versions, that conditional
writes are honoured (by trying), the event that starts tasks, lifecycle rules, the claim
function, that schedules can be made (by making one for in 90 days, and deleting it), the
limiter's table, and this machine's clock.

There is a line for each check: ok; FAILED, with what is wrong and how to mend it; or not
checked, with the reason. What is not there yet, and what the credentials may not look
at, is not checked. Exit code 1 means that a check failed.

It writes a probe object under doctor/, which starts nothing, and removes it with all its
versions. With --json it prints {"ok", "checks": [{"check", "status", "detail",
"mend"}]}, where status is ok, failed or not_checked.`

const doctorExample = `  sluice doctor --stack Sluice
  sluice doctor --bucket my-bucket --json | jq -r '.checks[] | select(.status == "failed") | .mend'`

func (a *app) newDoctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "doctor [flags]",
		Short:   "Find out what is wrong with a queue, and how to mend it",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

func (a *app) doctor(ctx context.Context) error {
	if _, _, err := a.target.names(); err != nil {
		return err
	}
	type report struct {
		OK     bool             `json:"ok"`
		Checks []doctor.Finding `json:"checks"`
	}
	r := report{OK: true}
	for f := range a.examine(ctx) {
		r.OK = r.OK && f.Status != doctor.Failed
		r.Checks = append(r.Checks, f)
		if !a.json {
			a.printFinding(f)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if a.json {
		doc, err := jsonv2.Marshal(r, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		a.printJSON(doc)
	}
	if !r.OK {
		return errReported
	}
	return nil
}

// examine checks what commands need to begin with, and then the deployment.
func (a *app) examine(ctx context.Context) iter.Seq[doctor.Finding] {
	return func(yield func(doctor.Finding) bool) {
		config, begins := a.checkConfig(ctx)
		fit := true
		for _, f := range begins {
			fit = fit && f.Status != doctor.Failed
			if !yield(f) {
				return
			}
		}
		rest := doctor.Skip("see above")
		if fit {
			deployment, f := a.deployment(ctx, config)
			if f != nil && !yield(*f) {
				return
			}
			if f == nil || f.Status != doctor.Failed {
				rest = doctor.Examine(ctx, deployment)
			}
		}
		for f := range rest {
			if !yield(f) {
				return
			}
		}
	}
}

// checkConfig looks at credentials and region.
func (a *app) checkConfig(ctx context.Context) (aws.Config, []doctor.Finding) {
	credentials := doctor.Finding{Check: "credentials", Status: doctor.OK}
	region := doctor.Finding{Check: "region", Status: doctor.OK}
	config, err := a.target.load(ctx)
	if err != nil {
		credentials.Status, credentials.Detail, credentials.Mend = doctor.Failed, describe(err), giveAccess
		region.Status, region.Detail = doctor.NotChecked, "see above"
		return config, []doctor.Finding{credentials, region}
	}
	got, err := config.Credentials.Retrieve(ctx)
	if err != nil {
		credentials.Status, credentials.Detail, credentials.Mend = doctor.Failed, "none were found: "+root(err).Error(), giveAccess
	} else {
		credentials.Detail = "of " + cmp.Or(got.AccountID, got.AccessKeyID) + ", from " + got.Source
	}
	if region.Detail = config.Region; config.Region == "" {
		region.Status, region.Detail, region.Mend = doctor.Failed, "none is set", giveRegion
	}
	return config, []doctor.Finding{credentials, region}
}

// deployment says what to examine. The finding is nil if no stack is named.
func (a *app) deployment(ctx context.Context, config aws.Config) (doctor.Deployment, *doctor.Finding) {
	d := doctor.Deployment{Config: config, Words: describe, Table: os.Getenv(dynamolimit.TableVariable)}
	bucket, stack, err := a.target.names()
	if err == nil && bucket != "" {
		d.Bucket = bucket
		return d, nil
	}
	f := &doctor.Finding{Check: "stack", Status: doctor.OK, Detail: stack}
	outputs, err := outputsOf(ctx, cloudformation.NewFromConfig(config), stack)
	switch {
	case err != nil:
		f.Status, f.Detail, f.Mend = doctor.Failed, describe(err), "check the name of the stack, the region and the account, or give --bucket"
	case outputs[bucketOutput] == "":
		f.Status, f.Detail, f.Mend = doctor.Failed, fmt.Sprintf("%s has no output %s", stack, bucketOutput), "name a stack of Sluice, or give --bucket"
	}
	d.Bucket, d.Table = outputs[bucketOutput], cmp.Or(outputs[tableOutput], d.Table)
	d.ClaimFunction, d.LimiterFunction = outputs["ClaimFunctionName"], outputs["LimiterFunctionName"]
	d.ScheduleGroup = outputs["ScheduleGroupName"]
	return d, f
}

// printFinding writes the line of a check.
func (a *app) printFinding(f doctor.Finding) {
	const statusWidth, checkWidth = len("not checked"), len("conditional writes")
	word, color := "ok", "32"
	switch f.Status {
	case doctor.Failed:
		word, color = "FAILED", "31"
	case doctor.NotChecked:
		word, color = "not checked", "2"
	case doctor.OK:
	}
	text := f.Detail
	if f.Mend != "" {
		text += ". To mend: " + f.Mend
	}
	a.out.printf("%s  %s  %s\n", a.out.style(color, pad(word, statusWidth)), pad(f.Check, checkWidth), inline(strings.TrimSpace(text)))
	_ = a.out.flush() // the error stays, and is reported at the end
}
