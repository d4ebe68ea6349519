"""MT-Bench's single-answer grading of a run's answers, by any judge.

exams    what of a run's folder is to be graded
grading  asks a judge for what is not graded yet
grades   the means of what is there
"""
