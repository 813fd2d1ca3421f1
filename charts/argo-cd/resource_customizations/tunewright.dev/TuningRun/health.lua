-- What people must act on is Degraded; what passes by itself, such as waiting for nodes, is Progressing.

-- Reasons of Finished=False that say that the run cannot go on; any other is the state that it is in.
local blocked = {Blocked = true, LedgerUnreadable = true}

local function health(status, message)
  return {status = status, message = message}
end

local function condition(name)
  for _, item in ipairs(obj.status.conditions or {}) do
    if item.type == name then
      return item
    end
  end
  return {status = "Unknown", reason = "", message = ""}
end

local function of_finished(finished)
  if condition("Succeeded").status == "True" then
    return health("Healthy", obj.status.answer)
  end
  if obj.status.state == "Stopped" and obj.status.best ~= nil then
    return health("Healthy", "stopped: " .. obj.status.answer)
  end
  if obj.status.state == "Stopped" then
    return health("Degraded", "stopped before anything was found")
  end
  return health("Degraded", finished.message)
end

local function of_running()
  local message = obj.status.answer or ""
  local capacity = condition("CapacityAvailable")
  if capacity.status == "False" then
    message = "waiting for capacity: " .. capacity.message
  end
  if obj.status.trials ~= nil then
    message = obj.status.trials.summary .. " trials; " .. message
  end
  return health("Progressing", obj.status.state .. ": " .. message)
end

if obj.status == nil or (obj.status.observedGeneration or 0) < obj.metadata.generation then
  return health("Progressing", "the operator has not seen this generation yet")
end
local accepted = condition("Accepted")
if accepted.status == "False" then
  return health("Degraded", "not accepted: " .. accepted.message)
end
local finished = condition("Finished")
if finished.status == "True" then
  return of_finished(finished)
end
if blocked[finished.reason] then
  return health("Degraded", "blocked: " .. finished.message)
end
local suspended = condition("Suspended")
if suspended.status == "True" then
  return health("Suspended", suspended.message)
end
return of_running()
