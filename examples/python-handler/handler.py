"""A Sluice handler in Python: a Lambda function that tasks of type lambda.invoke call.

It is called once per attempt with {"task_id", "attempt", "retry_count", "reschedule_count", "input",
"checkpoint"} and answers {"output": ...} to finish the task or {"reschedule": seconds, "checkpoint": ...}
to put it to sleep. An exception is a failed attempt, tried again with backoff. Nothing of Sluice has to be
installed.

This one greets. Its input may ask it to fail and to sleep a few times before:
{"name": "Ada", "failures": 1, "sleeps": 2, "seconds": 5}
"""


def handler(event, context):
    wish = event["input"] or {}
    if event["retry_count"] < wish.get("failures", 0):
        raise RuntimeError(f"failure {event['retry_count'] + 1}, as asked")
    if event["reschedule_count"] < wish.get("sleeps", 0):
        return {"reschedule": wish.get("seconds", 1), "checkpoint": {"slept": event["reschedule_count"] + 1}}

    slept = (event.get("checkpoint") or {}).get("slept", 0)
    return {"output": {"greeting": f"Hello, {wish.get('name', 'world')}!", "slept": slept}}
