"""What the model is told of the data: which parts of the profiles of files, and where in its prompt.

section      the prompt's section within its budget, as the question's `words` choose
notes        the texts that explain tables
folders      the files, folder by folder; `tables` what is in each of them, and `columns` in each of these
read_calls   the calls that read them
groups       files and tables that are alike; `one_way` has them read in one way, `sketches` counts their values
keys         the columns by which they can be joined; `joins` what is told of these
"""
