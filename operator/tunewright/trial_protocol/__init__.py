"""The schema that the planner's side and the trial program share: request, report, and their JSON codec."""
