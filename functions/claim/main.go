// Command claim is the stock claim function. It serves two task types:
// http.request, to the hosts listed in SLUICE_HTTP_HOSTS, and lambda.invoke, for handlers in
// any language. A function with handlers of your own is this file with other
// handlers.
package main

import (
	"context"
	"log"
	"os"
	"sync"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/sluice-dev/sluice/shared/handlers"
	"github.com/sluice-dev/sluice/shared/worker"
)

func main() {
	mux := worker.NewMux()
	worker.Handle(mux, handlers.TypeHTTPRequest, handlers.HTTP{Hosts: handlers.HostsFrom(os.Getenv(handlers.EnvHTTPHosts))}.Handle)
	worker.Handle(mux, handlers.TypeLambdaInvoke, handlers.Lambda{Client: sync.OnceValue(newInvoker)}.Handle, worker.MinLease(handlers.LongestRun))
	worker.Start(mux)
}

// newInvoker makes the Lambda client when the first task needs it.
func newInvoker() handlers.Invoker {
	config, err := awsconfig.LoadDefaultConfig(context.Background())
	if err != nil {
		log.Fatal("sluice: claim function: ", err)
	}
	return lambda.NewFromConfig(config)
}
