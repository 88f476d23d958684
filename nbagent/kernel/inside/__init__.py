"""Sources that are sent into a kernel and run there; the host imports none but `notes_inside`.

profile_inside       profiles data files; by kind: `documents_inside`, `frames_inside`, `json_inside`, `yaml_inside`,
                     `pages_inside`, `workbooks_inside`
text_tables_inside   tables in text: their `text_forms_inside`, `table_layout_inside`, `footers_inside`,
                     `columns_inside` with `column_values_inside` and `value_forms_inside`, and `read_calls_inside`
clock_inside         the time that there is for a file
stacked_inside       several tables in one text file, one below the other
layouts_inside       tables in text whose columns a note beside them tells by their places
notes_inside         which files are notes about data, by their names
listing_inside       lists data files with their hashes
find_inside          looks for a text in data files; `count_inside` counts it in one
transfer_inside      takes files in and gives them out; `unpack_inside` unpacks an archive
variables_inside     writes a variable out
introduction_inside  what a kernel says of itself
warm_inside          imports libraries ahead
"""
