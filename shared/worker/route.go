package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// A Router hands tasks over to other claim functions, which serve other task
// types.
type Router interface {
	// Route hands the task to the function that serves its type. False means
	// that none is known.
	Route(ctx context.Context, taskType, id string) (routed bool, err error)
}

// lambdaRouter invokes the function of a type asynchronously, with a batch of
// the one id.
type lambdaRouter struct {
	functions map[string]string
	client    func() *lambda.Client
}

// newRouter reads routes: a JSON object of task types and function ARNs. It is nil
// for an empty text.
func newRouter(config aws.Config, routes string) (Router, error) {
	if routes == "" {
		return nil, nil
	}
	r := &lambdaRouter{client: sync.OnceValue(func() *lambda.Client { return lambda.NewFromConfig(config) })}
	if err := json.Unmarshal([]byte(routes), &r.functions); err != nil {
		return nil, fmt.Errorf(`the environment variable %s must be JSON such as {"send_mail": "arn:aws:lambda:…"}: %w`, EnvRoutes, err)
	}
	return r, nil
}

func (r *lambdaRouter) Route(ctx context.Context, taskType, id string) (bool, error) {
	function, known := r.functions[taskType]
	if !known {
		return false, nil
	}
	payload, err := json.Marshal(map[string][]string{"task_ids": {id}})
	if err != nil {
		return false, err
	}
	_, err = r.client().Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &function, InvocationType: types.InvocationTypeEvent, Payload: payload,
	})
	if err != nil {
		return false, fmt.Errorf("hand task %s over to %s: %w", id, function, err)
	}
	return true, nil
}
