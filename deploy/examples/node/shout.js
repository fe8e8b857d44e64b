#!/usr/bin/env node
'use strict';
// A worker: answers in capitals. The handler may be async.

const { serve } = require('./locksley_worker.js');

serve((payload) => payload.toString().toUpperCase());
