// Command fn is a Lambda function that does what its event says.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

type event struct {
	Do   string `json:"do"`
	Text string `json:"text"`
}

type answer struct {
	Text      string `json:"text,omitempty"`
	PID       int    `json:"pid"`
	Deadline  int64  `json:"deadline"` // Unix milliseconds
	RequestID string `json:"request_id"`
	ARN       string `json:"arn"`
}

func main() {
	if os.Getenv("FAIL_INIT") != "" {
		fmt.Fprintln(os.Stderr, "cannot initialize")
		os.Exit(3)
	}
	lambda.Start(handle)
}

func handle(ctx context.Context, ev event) (answer, error) {
	lc, _ := lambdacontext.FromContext(ctx)
	deadline, _ := ctx.Deadline()
	a := answer{PID: os.Getpid(), Deadline: deadline.UnixMilli(), RequestID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn}
	switch ev.Do {
	case "env":
		a.Text = os.Getenv(ev.Text)
	case "print":
		fmt.Println(ev.Text)
		fmt.Fprintln(os.Stderr, ev.Text+" to stderr")
	case "error":
		return a, errors.New(ev.Text)
	case "panic":
		panic(ev.Text)
	case "exit":
		os.Exit(7)
	case "hang":
		select {}
	case "hang-once": // leaves a file with its process id, and does not hang where there is one
		if _, err := os.Stat(ev.Text); err == nil {
			return a, os.WriteFile(ev.Text+".again", []byte(strconv.Itoa(a.PID)), 0o600)
		}
		if err := os.WriteFile(ev.Text, []byte(strconv.Itoa(a.PID)), 0o600); err != nil {
			return a, err
		}
		select {}
	case "connect": // holds a connection for as long as the process lives
		if _, err := net.Dial("tcp", ev.Text); err != nil {
			return a, err
		}
	case "connect-child": // the same in a child that outlives its parent
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HOLD="+ev.Text)
		if err := cmd.Start(); err != nil {
			return a, err
		}
	}
	return a, nil
}

func init() {
	address := os.Getenv("HOLD")
	if address == "" {
		return
	}
	if _, err := net.Dial("tcp", address); err != nil {
		os.Exit(1)
	}
	select {}
}
