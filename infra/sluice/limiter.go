package sluice

import "github.com/aws/aws-cdk-go/awscdk/v2/awsiam"

// addLimiter adds the function that answers handlers in any language, and operators. Nothing starts it but
// those who may: see GrantLimiter.
func (q *Queue) addLimiter(props Props) {
	q.Limiter = q.addFunction(props, function{
		id:          "Limiter",
		name:        q.names.limiter,
		description: "Answers one request to the Sluice limiter",
		props:       props.Limiter,
		environment: map[string]string{envTable: q.names.table},
		rights:      []awsiam.PolicyStatement{q.limitRates()},
		limits:      true,
	})
}
