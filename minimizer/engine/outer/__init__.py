"""The program around compiled graphs: traced from a script, written as a flat script, run side by side."""
