package sluice_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/sluice-dev/sluice/infra/sluice"
	"github.com/sluice-dev/sluice/shared/worker"
)

const (
	endsArn    = "arn:aws:sqs:us-east-1:123456789012:ends"
	othersArn  = "arn:aws:sqs:us-east-1:123456789012:others"
	endsKeyArn = "arn:aws:kms:us-east-1:123456789012:key/0f3c"
)

// told has queues that are told of the end of tasks, one of them encrypted with a key of its own.
var told = sync.OnceValue(func() resources {
	return synthIn(map[string]any{"stack": "Told"}, func(app awscdk.App) sluice.Props {
		queues := awscdk.NewStack(app, jsii.String("Queues"), nil)
		ends := awssqs.Queue_FromQueueAttributes(queues, jsii.String("Ends"), &awssqs.QueueAttributes{
			QueueArn: jsii.String(endsArn), KeyArn: jsii.String(endsKeyArn),
		})

		return sluice.Props{
			Notices: map[string]awssqs.IQueue{
				"send_mail": ends, "send_letter": ends,
				"*": awssqs.Queue_FromQueueArn(queues, jsii.String("Others"), jsii.String(othersArn)),
			},
			Claims: []sluice.ClaimProps{{Name: "mail", Types: []string{"send_mail"}}},
		}
	})
})

func TestEveryClaimFunctionIsToldWhereToSendNoticesAndMayAndNoOtherFunction(t *testing.T) {
	t.Parallel()
	url := func(name string) string { return "https://sqs.us-east-1.{URLSuffix}/123456789012/" + name }
	want := fmt.Sprintf(`{"*":%q,"send_letter":%q,"send_mail":%q}`, url("others"), url("ends"), url("ends"))
	rights := []string{
		"sqs:SendMessage on " + endsArn + " " + othersArn,
		"kms:Decrypt kms:GenerateDataKey on " + endsKeyArn,
	}
	for id, may := range map[string]bool{"Claim": true, "Claimmail": true, "Limiter": false, "Reset": false, "Sweep": false} {
		f := told().named(t, "AWS::Lambda::Function", id)
		variable := f.at(t, "Environment", "Variables", worker.EnvNotices)
		if may && text(variable) != want {
			t.Errorf("%s: %s, want %s", id, text(variable), want)
		}
		if !may && variable != nil {
			t.Errorf("%s is told: %v", id, variable)
		}
		got := rolePolicies(t, told())[id+"Role"]
		for _, right := range rights {
			if slices.Contains(got, right) != may {
				t.Errorf("%s: the right %s: got\n%s", id, right, strings.Join(got, "\n"))
			}
		}
	}
}

func TestTheContextNamesQueuesForNotices(t *testing.T) {
	t.Parallel()
	rs := synth(map[string]any{"notices": "http.request=" + endsArn + ", lambda.invoke=" + othersArn + ", *=" + othersArn}, sluice.Props{})
	if got := rolePolicies(t, rs)["ClaimRole"]; !slices.Contains(got, "sqs:SendMessage on "+othersArn+" "+endsArn) &&
		!slices.Contains(got, "sqs:SendMessage on "+endsArn+" "+othersArn) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	got := text(rs.only(t, "AWS::Lambda::Function", "QueueClaim").at(t, "Environment", "Variables", worker.EnvNotices))
	if !strings.HasPrefix(got, `{"*":"https://sqs.us-east-1.`) || strings.Count(got, "/others\"") != 2 || strings.Count(got, "/ends\"") != 1 {
		t.Errorf("told: %s", got)
	}
}

func TestAQueueOfAnotherRegionIsRefused(t *testing.T) {
	t.Parallel()
	defer func() {
		if message := fmt.Sprint(recover()); !strings.Contains(message, `Notices["job"] is in the Region eu-west-1`) {
			t.Errorf("got %s", message)
		}
	}()
	synthesis.Lock()
	defer synthesis.Unlock()
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Far"), &awscdk.StackProps{
		Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("us-east-1")},
	})
	far := awssqs.Queue_FromQueueArn(stack, jsii.String("Ends"), jsii.String("arn:aws:sqs:eu-west-1:123456789012:ends"))
	sluice.New(stack, "Queue", &sluice.Props{Assets: assets, Notices: map[string]awssqs.IQueue{"job": far}})
	t.Error("accepted")
}
