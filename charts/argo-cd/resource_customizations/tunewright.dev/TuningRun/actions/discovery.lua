local function is_true(name)
  for _, item in ipairs((obj.status or {}).conditions or {}) do
    if item.type == name then
      return item.status == "True"
    end
  end
  return false
end

local over = is_true("Finished")
local suspended = is_true("Suspended")

return {
  suspend = {disabled = over or suspended},
  resume = {disabled = over or not suspended},
  stop = {disabled = over or obj.spec.stop == true}
}
