#!/bin/sh
# Starts the build that VERSION names: run.sh PORT ADDRESS
exec java $JAVA_OPTIONS -jar "$(dirname "$0")/$VERSION/app.jar" --server.port="$1" --server.address="$2"
