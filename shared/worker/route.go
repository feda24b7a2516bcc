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

// otherTypes stands in the routes for all task types that are not among them.
const otherTypes = "*"

// parseRoutes reads routes: a JSON object of task types and the ARNs of the functions that
// serve them, none for an empty text. A function does not find itself among them.
func parseRoutes(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	var routes map[string]string
	if err := json.Unmarshal([]byte(text), &routes); err != nil {
		return nil, fmt.Errorf(`the environment variable %s must be JSON such as {"send_mail": "arn:aws:lambda:…"}: %w`, EnvRoutes, err)
	}
	return routes, nil
}

// newRouter is nil without routes.
func newRouter(config aws.Config, routes map[string]string) Router {
	if len(routes) == 0 {
		return nil
	}
	return &lambdaRouter{functions: routes, client: sync.OnceValue(func() *lambda.Client { return lambda.NewFromConfig(config) })}
}

// without is the mux less the handlers of types that are routed to another function: functions of one
// code, with different settings, have all handlers, and each serves its types only.
func (m *Mux) without(routes map[string]string) *Mux {
	rest := NewMux()
	for taskType, h := range m.handlers {
		if _, routed := routes[taskType]; !routed {
			rest.handlers[taskType] = h
		}
	}
	return rest
}

func (r *lambdaRouter) Route(ctx context.Context, taskType, id string) (bool, error) {
	function, known := r.functions[taskType]
	if !known {
		function, known = r.functions[otherTypes]
	}
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
