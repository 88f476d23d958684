# The parent of a sandbox's bwrap in a scope of systemd's: `sh keeper.sh FOLDER COMMAND...`.
#
# systemd removes a scope as soon as it is empty, and with it what Linux has counted. So this one stays until the command
# has ended, and writes that down in FOLDER. Nothing but the shell's own words: there may be no process left to start.
folder=$1
shift
"$@"
code=$?
while IFS=: read -r _ controllers path; do
    [ -n "$controllers" ] || group=/sys/fs/cgroup$path
done < /proc/self/cgroup
for name in memory.events memory.peak; do
    while read -r line; do echo "$line"; done < "$group/$name" > "$folder/$name"
done 2> /dev/null
exit "$code"
