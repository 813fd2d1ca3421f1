-- One way: a stopped run keeps its best and never reopens. Git must not render `stop: false`.
obj.spec.stop = true
return obj
