package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-dev/sluice/localstack/cloud/dynamodbemu"
	"github.com/sluice-dev/sluice/shared/dynamolimit"
	"github.com/sluice-dev/sluice/shared/limit"
)

// TestLimitsScripts runs the scripts of testdata/limits, each against a DynamoDB of its
// own with the empty table "limits".
func TestLimitsScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/limits",
		RequireExplicitExec: true,
		Setup:               setupLimits,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"json":   checkJSONOutput,
			"park":   park,
			"setenv": setenv,
		},
	})
}

func setupLimits(env *testscript.Env) error {
	emulated := dynamodbemu.New(dynamodbemu.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "/cloudformation/") {
			describeLimitsStack(w, r)
			return
		}
		emulated.ServeHTTP(w, r)
	}))
	env.Defer(server.Close)
	client := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	ctx, cancel := testContext()
	defer cancel()
	if _, err := client.CreateTable(ctx, dynamolimit.Table("limits")); err != nil {
		return err
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "examples"))
	if err != nil {
		return err
	}
	env.Vars = append(env.Vars, "EXAMPLES="+examples,
		"AWS_ENDPOINT_URL="+server.URL, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true",
		"SLUICE_TABLE=limits", "HOME="+env.WorkDir, "TZ=UTC", "TERM=xterm")
	return nil
}

// park POLICY KEY N: has N tasks be parked on a key that admits nothing now.
func park(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 || neg {
		ts.Fatalf("usage: park POLICY KEY N")
	}
	tasks, err := strconv.Atoi(args[2])
	ts.Check(err)
	client := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(ts.Getenv("AWS_ENDPOINT_URL")),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	l := dynamolimit.New(client, "limits", dynamolimit.WithCacheFor(0))
	ctx, cancel := testContext()
	defer cancel()
	for n := range tasks {
		turn, err := l.Arrive(ctx, dynamolimit.Task{ID: fmt.Sprint("task-", args[1], "-", n)}, []limit.Tier{limit.Policy{Name: args[0]}.Key(args[1])}, limit.Patience{})
		ts.Check(err)
		if turn.Action != limit.ToPark {
			ts.Fatalf("task %d is not parked", n)
		}
	}
}

// describeLimitsStack knows the stack "production", whose table is "limits", and others
// that have none.
func describeLimitsStack(w http.ResponseWriter, r *http.Request) {
	output := ""
	if r.FormValue("StackName") == "production" {
		output = "<member><OutputKey>TableName</OutputKey><OutputValue>limits</OutputValue></member>"
	}
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks><member><StackName>s</StackName><StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2027-01-01T00:00:00Z</CreationTime><Outputs>%s</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`, output)
}
