"""Runs the handler of a Lambda function against the Lambda Runtime API."""

import importlib
import json
import os
import sys
import time
import traceback
import urllib.request

API = "http://" + os.environ["AWS_LAMBDA_RUNTIME_API"] + "/2018-06-01/runtime/"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Context:
    """What a handler can ask about its invocation."""

    def __init__(self, headers):
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers["Lambda-Runtime-Invoked-Function-Arn"]
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = None
        self.client_context = None
        self._deadline_ms = int(headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self):
        return max(0, self._deadline_ms - int(time.time() * 1000))


def post(path, document):
    request = urllib.request.Request(API + path, data=document.encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    with OPENER.open(request) as response:
        response.read()


def describe(error):
    stack = traceback.format_exception(type(error), error, error.__traceback__)
    return json.dumps(
        {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": stack}
    )


def load():
    module, _, function = os.environ["_HANDLER"].rpartition(".")
    sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
    return getattr(importlib.import_module(module.replace("/", ".")), function)


def serve(handler):
    while True:
        with OPENER.open(API + "invocation/next") as response:
            headers, payload = response.headers, response.read()
        request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        os.environ["_X_AMZN_TRACE_ID"] = headers["Lambda-Runtime-Trace-Id"]
        try:
            outcome = json.dumps(handler(json.loads(payload), Context(headers)))
        except Exception as error:
            traceback.print_exc()
            post("invocation/" + request_id + "/error", describe(error))
            continue
        post("invocation/" + request_id + "/response", outcome)


def main():
    try:
        handler = load()
    except Exception as error:
        traceback.print_exc()
        post("init/error", describe(error))
        sys.exit(1)
    serve(handler)


main()
