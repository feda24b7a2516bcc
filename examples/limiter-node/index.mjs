// A Sluice handler in JavaScript that asks the limiter before it calls a vendor.
//
// A Lambda function (Node.js 20 or later) that tasks of type lambda.invoke call. It is called once per attempt with
// {task_id, attempt, retry_count, reschedule_count, input, checkpoint} and answers {output} to finish the task or
// {reschedule: seconds} to put it to sleep; an exception is a failed attempt, tried again with backoff.
//
// The vendor here is a language model, which counts requests and tokens per customer. What a call costs is known
// only afterwards, so the most it may cost is charged first, and the true cost settled when the answer is there.
//
// Its input: {"customer": "acme", "prompt": "...", "max_tokens": 500}
//
// To deploy it: register the policies (`sluice limits declare ../limiter-python/policies.json`), set
// SLUICE_LIMITER_FUNCTION to the name of the limiter function, and allow this function lambda:InvokeFunction on it.
//
// A task whose costs are known when it is submitted needs none of this: name them in its "limits", and it sleeps
// until there is room without a single invocation of its handler.

import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";

// An invocation that the SDK repeats by itself would be charged twice: once is enough.
const aws = new LambdaClient({ maxAttempts: 1 });

export async function handler(event, context) {
  const { customer, max_tokens: most } = event.input;

  const decision = await limiter({
    op: "acquire",
    id: context.awsRequestId,
    tiers: [
      { policy: "vendor", key: customer },
      { policy: "tpm", key: customer, cost: most },
    ],
  });
  if (!decision.admitted) {
    if (decision.never) {
      return { error: `max_tokens is ${most}, which is more than the limit can ever hold`, permanent: true };
    }
    return { reschedule: decision.retry_after_ms / 1000 };
  }

  let answer;
  try {
    answer = await callVendor(event.input);
  } catch (error) {
    if (!(error instanceof VendorBusy)) throw error;
    // It says 429 all the same: nobody calls it for this customer until it is ready, and we come back then.
    await limiter({ op: "hold", policy: "vendor", key: customer, for_ms: error.retryAfter * 1000 });
    await limiter({ op: "refund", reservation: decision.reservation });
    return { reschedule: error.retryAfter };
  }

  await limiter({
    op: "settle",
    reservation: decision.reservation,
    actual: [{ policy: "tpm", key: customer, cost: answer.tokens }],
  });
  return { output: answer };
}

// limiter asks the limiter function. Its errors are exceptions: the attempt fails and is tried again later.
async function limiter(request) {
  const response = await aws.send(
    new InvokeCommand({ FunctionName: process.env.SLUICE_LIMITER_FUNCTION, Payload: JSON.stringify(request) }),
  );
  const answer = JSON.parse(Buffer.from(response.Payload).toString());
  if (response.FunctionError) throw new Error(`the limiter failed: ${answer.errorMessage}`);
  if (answer.error) throw new Error(`the limiter says ${answer.error.code}: ${answer.error.message}`);
  return answer;
}

// VendorBusy: the vendor answered 429.
class VendorBusy extends Error {
  constructor(retryAfter) {
    super(`too many requests, retry after ${retryAfter} s`);
    this.retryAfter = retryAfter;
  }
}

// callVendor stands in for the vendor: it counts words as tokens, and can be asked to be busy.
async function callVendor({ prompt, busy }) {
  if (busy) throw new VendorBusy(busy);
  return { text: prompt.toUpperCase(), tokens: prompt.split(/\s+/).filter(Boolean).length };
}
