"""MT-Bench's single-answer grading of a run's answers, by any judge.

grades   what of a run's folder is to be graded, its grades, and their means
grading  asks a judge for what is not graded yet
"""
