"""A Sluice handler in Python: a Lambda function that tasks of type lambda.invoke call.

Answer {"output": ...} to finish the task, {"reschedule": seconds} to put it to sleep, or raise to have it
tried again. Nothing of Sluice has to be installed.
"""


def handler(event, context):
    task = event.get("input") or {}
    if event.get("reschedule_count", 0) < task.get("sleeps", 0):
        return {"reschedule": task.get("seconds", 1)}

    return {"output": {"greeting": f"Hello, {task.get('name', 'world')}!"}}
