"""Pictures as SVG text: schedules over time, memory over time and by kind, estimates beside measurements."""
