package lambdalimit

import _ "embed" // the schemas below

// RequestSchema is the JSON Schema (draft 2020-12) of a request: what fits it is
// taken, but for the few rules that a schema cannot say, which its description
// lists.
//
//go:embed schema/request.schema.json
var RequestSchema string

// AnswerSchema is the JSON Schema (draft 2020-12) of an answer.
//
//go:embed schema/answer.schema.json
var AnswerSchema string
