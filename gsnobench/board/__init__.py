"""Leaderboards: evidence -> statistics -> terminal, Markdown, HTML, CSV, LaTeX, MLflow. Pure functions of the result files."""
