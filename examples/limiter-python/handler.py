"""A Sluice handler in Python that asks the limiter before it calls a vendor.

A Lambda function that tasks of type lambda.invoke call (see ../python-handler). The vendor here is a
language model, which counts requests and tokens per customer. What a call costs is known only afterwards, so
the most it may cost is charged first, and the true cost settled when the answer is there. When there is no
room the task goes to sleep until there is: {"reschedule": seconds}.

Its input: {"customer": "acme", "prompt": "...", "max_tokens": 500}

To deploy it: register policies.json (`sluice limits declare policies.json`), set SLUICE_LIMITER_FUNCTION to
the name of the limiter function, and allow this function lambda:InvokeFunction on it.

A task whose costs are known when it is submitted needs none of this: name them in its "limits", and it sleeps
until there is room without a single invocation of its handler.
"""

import json
import os

import boto3
from botocore.config import Config

LIMITER = os.environ["SLUICE_LIMITER_FUNCTION"]

# An invocation that boto3 repeats by itself would be charged twice: once is enough.
aws = boto3.client("lambda", config=Config(read_timeout=30, retries={"total_max_attempts": 1}))


def handler(event, context):
    wish = event["input"]
    customer, most = wish["customer"], wish["max_tokens"]

    decision = limiter(
        op="acquire",
        id=context.aws_request_id,
        tiers=[
            {"policy": "vendor", "key": customer},
            {"policy": "tpm", "key": customer, "cost": most},
        ],
    )
    if not decision["admitted"]:
        if decision["never"]:
            return {"error": f"max_tokens is {most}, which is more than the limit can ever hold", "permanent": True}
        return {"reschedule": decision["retry_after_ms"] / 1000}

    try:
        answer = call_vendor(wish)
    except VendorBusy as busy:
        # It says 429 all the same: nobody calls it for this customer until it is ready, and we come back then.
        limiter(op="hold", policy="vendor", key=customer, for_ms=busy.retry_after * 1000)
        limiter(op="refund", reservation=decision["reservation"])
        return {"reschedule": busy.retry_after}

    limiter(
        op="settle",
        reservation=decision["reservation"],
        actual=[{"policy": "tpm", "key": customer, "cost": answer["tokens"]}],
    )
    return {"output": answer}


def limiter(**request):
    """Asks the limiter function. Its errors are exceptions: the attempt fails and is tried again later."""
    response = aws.invoke(FunctionName=LIMITER, Payload=json.dumps(request))
    answer = json.load(response["Payload"])
    if "FunctionError" in response:
        raise RuntimeError(f"the limiter failed: {answer.get('errorMessage')}")
    if "error" in answer:
        raise RuntimeError(f"the limiter says {answer['error']['code']}: {answer['error']['message']}")
    return answer


class VendorBusy(Exception):
    """The vendor answered 429."""

    def __init__(self, retry_after):
        super().__init__(f"too many requests, retry after {retry_after} s")
        self.retry_after = retry_after


def call_vendor(wish):
    """Stands in for the vendor: it counts words as tokens, and can be asked to be busy."""
    if "busy" in wish:
        raise VendorBusy(wish["busy"])
    return {"text": wish["prompt"].upper(), "tokens": len(wish["prompt"].split())}
