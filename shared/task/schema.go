package task

import _ "embed" // the schemas below

// SubmissionSchema is the JSON Schema (draft 2020-12) of what a producer puts
// into the inbox: a document that fits it is a submission, but for the few
// rules that a schema cannot say, which its description lists.
//
//go:embed schema/submission.schema.json
var SubmissionSchema string

// RecordSchema is the JSON Schema (draft 2020-12) of a record as [Task.Encode]
// writes it. [Decode] reads more: fields that are missing have defaults.
//
//go:embed schema/record.schema.json
var RecordSchema string
